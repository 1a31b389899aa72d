"""The page as a Space runs it; `hubaudit space run` serves the same one."""

from hubaudit.space.app import SpaceApp, launch_options, queued

APP = SpaceApp.from_environment()
demo = queued(APP)

if __name__ == "__main__":
    demo.launch(**launch_options(APP))
