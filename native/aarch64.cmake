# Cross-compile for aarch64 with Debian's g++-aarch64-linux-gnu; programs run under qemu-user:
#     cmake -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=native/aarch64.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
