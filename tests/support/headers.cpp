// Precompiles the headers that most tests include, with the flags of programs.
int main() {
  return 0;
}
