"""Files of rocprof, rocprofv3 and rocmProfileData."""
