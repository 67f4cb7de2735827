from matplotlib.figure import Figure, SubFigure

class Axes:
    @property
    def figure(self) -> Figure | SubFigure: ...
