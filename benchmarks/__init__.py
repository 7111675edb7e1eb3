"""Programs that measure speed; they need more than the package itself."""
