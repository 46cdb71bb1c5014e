"""How Sphinx makes the site of the sources that tools/site/sources.py has made."""

project = "gcoll"
root_doc = "index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
nitpicky = True # a link that leads nowhere is an error

# Links to sections have the anchors that GitHub makes.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

html_theme = "furo"
html_title = "gcoll"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_last_updated_fmt = None
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "monokai"
