"""TensorBoard's PROFILE tab: routes over the views; the page lies in static/."""
