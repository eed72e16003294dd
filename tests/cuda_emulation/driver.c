// libcuda.so.1 of the emulated device: that it can be opened is all that is asked of it.
int quire_emulated_driver(void);
int quire_emulated_driver(void) {
  return 1;
}
