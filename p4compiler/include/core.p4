/* Declarations of P4_16's core library, for every architecture. */
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,         // extract() or lookahead() beyond the end of the packet
    NoMatch,                // a select without a case for its value
    StackOutOfBounds,       // an element of a header stack that is not there
    HeaderTooShort,         // a varbit field that would be too long
    ParserTimeout,
    ParserInvalidArgument   // an argument that a parser's operation does not allow
}

match_kind { exact, ternary, lpm }

extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

@noWarn("unused")
action NoAction() { }

#endif
