class SequenceFile: pass
class Trainer: pass
