"""Native integers for what users see.

Compiled, `i64` is a machine word. Type checkers of users read `_native.pyi` instead, where it is
`int`: they are to multiply, divide and store such numbers like any other. What is public takes its
`i64` from here, what is not from `mypy_extensions`.
"""

from mypy_extensions import i64

__all__ = ["i64"]
