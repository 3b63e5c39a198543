"""The one exception whose message is for the user."""


class Failure(Exception):
    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code
