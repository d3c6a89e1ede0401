"""The pages of this project as a web site in build/site: ``make docs``.

``pages`` copies the Markdown as the site's builder wants it, ``navigation`` says where each page stands, ``glossary``
makes the glossary's terms tooltips, ``reference`` adds the API pages, ``recordings`` the terminal player, ``gallery``
the reports, ``__main__`` builds, and ``check`` looks for broken links and for what would be loaded from elsewhere.
``assets`` is what a reader's browser loads besides pages.
"""
