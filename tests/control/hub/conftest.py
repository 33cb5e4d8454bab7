from tests.control.conftest import runs

__all__ = ["runs"]
