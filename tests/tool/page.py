"""A page of `bearing report`, read by Python's parser of HTML into a tree that tests ask questions."""

import html.parser

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, dict(attributes), parent, []

    def all(self, *tags):
        """The elements below of these tags, in the order of the page."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def one(self, tag):
        (found,) = self.all(tag)
        return found

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def inside(self, tag):
        return self.parent is not None and (self.parent.tag == tag or self.parent.inside(tag))


class Page(html.parser.HTMLParser):
    """Raises ValueError where an end does not belong to its beginning."""

    def __init__(self, text):
        super().__init__()
        self.root = self.open = Element("", [], None)
        self.feed(text)
        self.close()
        if self.open is not self.root:
            raise ValueError(f"<{self.open.tag}> is not closed")

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open = self.open.children[-1]

    def handle_startendtag(self, tag, attributes):
        if len(dict(attributes)) != len(attributes):
            raise ValueError(f"<{tag}> has an attribute twice: {attributes}")
        self.open.children.append(Element(tag, attributes, self.open))

    def handle_endtag(self, tag):
        if tag != self.open.tag:
            raise ValueError(f"</{tag}> ends <{self.open.tag}> at {self.getpos()}")
        self.open = self.open.parent

    def handle_data(self, data):
        self.open.children.append(data)

    def all(self, *tags):
        return list(self.root.all(*tags))

    def one(self, tag):
        return self.root.one(tag)

    def table(self, caption):
        """The rows of the table whose caption begins so, without its headings."""
        (table,) = [table for table in self.all("table") if table.one("caption").text().startswith(caption)]
        return [[cell.text() for cell in row.all("th", "td")] for row in table.one("tbody").all("tr")]
