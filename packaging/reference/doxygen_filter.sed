# Adds doxygen's marks to the comments of the headers that are not on a function.
1s,^/\*.*$,/** @file,
s,^/\*$,/**,
s,^/\* ,/** ,
s,^\(#define QUIRE_[A-Z0-9_]* .*[^ ]\)  */\* ,\1 /**< ,
