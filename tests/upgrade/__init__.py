"""An installation of an earlier version goes on under the present one."""
