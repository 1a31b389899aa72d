"""The page as a Space runs it; `hubaudit space run` serves the same one."""

from hubaudit.space.app import SpaceApp, launch_options

APP = SpaceApp.from_environment()
demo = APP.build().queue(max_size=APP.limits.max_waiting)

if __name__ == "__main__":
    demo.launch(**launch_options(APP))
