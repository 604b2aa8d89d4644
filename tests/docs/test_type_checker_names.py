"""The names that type checkers see are the names that the package has."""

import ast
import inspect

import lightning_gpuprof


def test_type_checkers_see_every_public_name_in_the_module_that_defines_it():
    tree = ast.parse(inspect.getsource(lightning_gpuprof))
    guarded = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen_by_checkers = {
        name.asname: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert seen_by_checkers == lightning_gpuprof._PUBLIC
