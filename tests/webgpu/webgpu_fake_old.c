/* A library such as there were before December 2025: it loads, and must be refused. */
int wgpuGetInstanceLimits(void);
int wgpuCreateInstance(void);

int wgpuGetInstanceLimits(void) {
  return 0;
}

int wgpuCreateInstance(void) {
  return 0;
}
