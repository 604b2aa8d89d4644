"""The block's operations lie far left of the ridge: memory limits them, the product is limited
by computing."""

from block import block, operations, whole
from roofs import matrix_product, measure, table

if __name__ == "__main__":
    roofs = measure()
    table([*operations(), matrix_product()], roofs)
    print("\nAll five as one, against the bytes that it must move at least:")
    table([whole(block, "block")], roofs)
