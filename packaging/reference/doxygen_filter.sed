# The headers have one form of comment; doxygen wants its own marks on those that are no function's.
1s,^/\*.*$,/** @file,
s,^/\*$,/**,
s,^/\* ,/** ,
s,^\(#define QUIRE_[A-Z0-9_]* .*[^ ]\)  */\* ,\1 /**< ,
