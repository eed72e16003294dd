using System;
using System.Collections.Generic;
using System.Globalization;
using System.Text;

namespace Quire
{
    /// <summary>Reads the JSON that the library writes: objects, arrays, strings and numbers.</summary>
    internal sealed class Json
    {
        private readonly string text;
        private int at;

        private Json(string text)
        {
            this.text = text;
        }

        /// <summary>A Dictionary, List, string or double, or a long for a whole number.</summary>
        public static object Parse(string text)
        {
            var json = new Json(text);
            object value = json.Value();
            if (json.at != text.Length) throw json.Unexpected();
            return value;
        }

        private object Value()
        {
            switch (Peek())
            {
                case '{': return Object();
                case '[': return Array();
                case '"': return String();
                default: return Number();
            }
        }

        private Dictionary<string, object> Object()
        {
            var members = new Dictionary<string, object>();
            Take('{');
            while (!TakeIf('}'))
            {
                if (members.Count > 0) Take(',');
                string name = String();
                Take(':');
                members[name] = Value();
            }
            return members;
        }

        private List<object> Array()
        {
            var elements = new List<object>();
            Take('[');
            while (!TakeIf(']'))
            {
                if (elements.Count > 0) Take(',');
                elements.Add(Value());
            }
            return elements;
        }

        private string String()
        {
            var content = new StringBuilder();
            Take('"');
            while (!TakeIf('"'))
            {
                char next = Peek();
                at++;
                content.Append(next == '\\' ? Escaped() : next);
            }
            return content.ToString();
        }

        private char Escaped()
        {
            char escape = Peek();
            at++;
            ushort code;
            if (escape == 'u' && at + 4 <= text.Length && ushort.TryParse(text.Substring(at, 4),
                    NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out code))
            {
                at += 4;
                return (char)code;
            }
            int known = "bfnrt\"\\/".IndexOf(escape);
            if (known < 0) throw Unexpected();
            return "\b\f\n\r\t\"\\/"[known];
        }

        private object Number()
        {
            int start = at;
            while (at < text.Length && "+-.0123456789eE".IndexOf(text[at]) >= 0) at++;
            string digits = text.Substring(start, at - start);
            long whole;
            if (long.TryParse(digits, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out whole))
                return whole;
            double number;
            if (double.TryParse(digits, NumberStyles.Float, CultureInfo.InvariantCulture, out number)) return number;
            throw Unexpected();
        }

        private char Peek()
        {
            if (at >= text.Length) throw Unexpected();
            return text[at];
        }

        private bool TakeIf(char wanted)
        {
            if (Peek() != wanted) return false;
            at++;
            return true;
        }

        private void Take(char wanted)
        {
            if (!TakeIf(wanted)) throw Unexpected();
        }

        private QuireException Unexpected()
        {
            return new QuireException(ErrorCode.Internal, "text of the library at " + at + " is not JSON");
        }
    }
}
