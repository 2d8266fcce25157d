"""The S3 server is that of the pictures' tests."""

from tests.images.conftest import bucket, s3, s3_server

__all__ = ["bucket", "s3", "s3_server"]
