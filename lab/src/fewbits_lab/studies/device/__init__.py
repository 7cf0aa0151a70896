"""What is known of the device kernels without a device."""
