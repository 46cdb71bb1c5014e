"""How Sphinx makes the site of the sources that tools/site/sources.py has made."""

import os
import re

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
smartquotes = False # of --flag it makes a dash
pygments_style = "default"
pygments_dark_style = "monokai"


def mend_theme(app, exception):
    """Makes whole what Debian 12's package of Furo lacks: a compiler of style sheets has dropped the rules for systems that are dark,
    a style sheet is imported from the root of a server, and a script imports another one, as only modules may. Of other
    packages of Furo nothing is changed."""
    if exception or app.builder.name != "html":
        return
    static = os.path.join(app.outdir, "_static")
    path = os.path.join(static, "styles", "furo.css")
    with open(path, encoding="utf-8") as file:
        style = file.read()
    outside = re.search(r"@import url\((/[^)]*)\);", style)
    if outside:
        with open("/usr/share" + outside.group(1), encoding="utf-8") as file: # furo depends on its package
            style = style.replace(outside.group(), file.read())
    if "prefers-color-scheme" not in style:
        dark = re.search(r'body\[data-theme="dark"\] (\{[^}]*\})', style)
        style += "\n@media not print { @media (prefers-color-scheme: dark) {\n  body:not([data-theme=\"light\"]) %s } }\n" % dark.group(1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(style)
    path = os.path.join(static, "scripts", "furo.js")
    with open(path, encoding="utf-8") as file:
        script = file.read()
    imported = re.match(r'import Gumshoe from "\./([\w-]+\.js)";', script)
    if imported:
        with open(os.path.join(static, "scripts", imported.group(1)), encoding="utf-8") as file:
            script = script.replace(imported.group(), file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)


def setup(app):
    app.connect("build-finished", mend_theme)
