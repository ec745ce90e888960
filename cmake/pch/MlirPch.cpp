// The source that CMake needs to build the pre-compiled headers once; users name the target with REUSE_FROM.
