"""Commands of ``foretrace hil``, one file each."""
