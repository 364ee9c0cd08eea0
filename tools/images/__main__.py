"""`python -m tools.images`: build our images, list them, print their catalogue, push them to a registry."""

import argparse

from tools.images import Image, build, catalogue, push
from tools.images.recipes import RECIPES
from tools.shell import command


def main() -> None:
    """Do what the command line says; what it prints on standard output can be pasted into a stack file."""
    asked = _arguments()
    if asked.action == "list":
        for name, recipe in RECIPES.items():
            print(f"{name:9} {recipe.folder:20} {recipe.about}")
        return
    images = build(*asked.names, refresh=asked.refresh)
    if asked.push:
        _print_catalogue(push(images, asked.push))
    elif asked.action == "catalogue":
        _print_catalogue(catalogue(images))
    else:
        for image in images.values():
            print(_line(image))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.images", description="Build our images and push them.")
    parser.add_argument("action", nargs="?", default="build", choices=("build", "list", "catalogue"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all when none is given: {', '.join(RECIPES)}")
    parser.add_argument("--push", metavar="REGISTRY", help="copy the images there and print their catalogue")
    parser.add_argument("--refresh", action="store_true", help="take what comes from Debian anew")
    return parser.parse_args()


def _print_catalogue(references: dict[str, str]) -> None:
    for name, reference in references.items():
        print(f"{name}: {reference}")


def _line(image: Image) -> str:
    return f"{image.ref}  {image.archive.stat().st_size / 2**20:.1f} MiB  {image.archive}"


if __name__ == "__main__":
    command(main)
