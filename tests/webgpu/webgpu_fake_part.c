/* A library that is new enough by its names, and lacks what is used. */
int wgpuGetInstanceLimits(void);
int wgpuTextureGetTextureBindingViewDimension(void);

int wgpuGetInstanceLimits(void) {
  return 0;
}

int wgpuTextureGetTextureBindingViewDimension(void) {
  return 0;
}
