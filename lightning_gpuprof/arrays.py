"""Names for the types of numpy arrays."""

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Int8 = npt.NDArray[np.int8]
Float32 = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[np.generic]
