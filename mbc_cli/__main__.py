"""`python -m mbc_cli` is `mbc`."""

from mbc_cli.app import main

main()
