"""Files of Nsight Systems and Nsight Compute."""
