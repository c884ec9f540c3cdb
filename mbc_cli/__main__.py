"""`python -m mbc_cli` is `mbc`."""

from mbc_cli.app import main

if __name__ == "__main__":  # the processes that read files import this module too
    main()
