"""When is the water low enough to walk to the tide pools?"""
