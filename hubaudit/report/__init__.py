"""What an audit writes: schema, JSON, Markdown, HTML, plots and the terminal's table. All pure, no torch."""
