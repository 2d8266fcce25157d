"""Sources of hashtags and trends, as the sandbox has them: what is popular changes with its clock."""
