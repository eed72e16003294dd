// Nothing but a place for the headers that most tests include: compiled once, with the flags of programs.
int main() {
  return 0;
}
