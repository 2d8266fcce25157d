def print_arguments(s): print(s)
