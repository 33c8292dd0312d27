aarch64
