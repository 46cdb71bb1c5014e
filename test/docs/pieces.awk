# Makes C of the code blocks of a document: a program of each block with a main function, and one program of all others, which
# the caller begins and ends (pieces.c). A block of statements becomes a function, and the last line of pieces.c lists these.
# Prints how many programs and functions there are.
# Variables: out, a folder; doc, the document's name; word, which every block of the other library has; side, "gcoll" or "other",
# whose blocks are wanted; parameters, of a function.

function fail(text) {
    print "FAILED: " doc ":" begun ": " text > "/dev/stderr"
    failed = 1
    exit 1
}

function end_block(    file, ours) {
    ours = (block ~ /gcoll/)
    if (ours == (block ~ word)) fail("the block must have either gcoll or " word " in it")
    if (ours != (side == "gcoll") || language != "c") return
    if (block ~ /\nint main\(/) {
        file = out "/program" ++programs ".c"
        printf "#line %d \"%s\"\n%s", begun, doc, block > file
        close(file)
        return
    }
    file = out "/pieces.c"
    if (block ~ /\n(static|typedef) [^;]*\{\n/) { # functions and types
        printf "#line %d \"%s\"\n%s", begun, doc, block >> file
        return
    }
    pieces++
    list = list "piece_" begun ", "
    printf "static void piece_%d(%s) {\n#line %d \"%s\"\n%s}\n", begun, parameters, begun, doc, block >> file
}

/^```(c|cpp)$/ { language = substr($0, 4); begun = NR; block = "\n"; inside = 1; next }
/^```/ && inside { inside = 0; end_block(); next }
inside { block = block $0 "\n" }
END {
    if (failed) exit 1
    file = out "/pieces.c"
    printf "static void (*const pieces[])(%s) = {%s};\n", parameters, list >> file
    print programs + 0, pieces + 0
}
