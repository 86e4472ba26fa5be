"""`python -m backplane`: the command `backplane`."""

from backplane.cli import main

if __name__ == "__main__":
    main(prog_name="python -m backplane")
