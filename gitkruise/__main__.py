"""Lets `python -m gitkruise` do what the `gitkruise` command does."""

from gitkruise.cli.root import main

if __name__ == "__main__":
    main()
