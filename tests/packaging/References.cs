using System;
using System.Reflection;

/// <summary>Resolves every type and attribute that an assembly refers to, and refuses assemblies that are private to a
/// runtime, which compilers of users do not have. The arguments are the assembly's path and the least number of
/// types.</summary>
internal static class References
{
    private const int TypeReference = 0x01000001; // token of the first

    public static int Main(string[] arguments)
    {
        Assembly assembly = Assembly.LoadFrom(arguments[0]);
        foreach (AssemblyName name in assembly.GetReferencedAssemblies())
            if (name.FullName.StartsWith("System.Private.")) throw new Exception("it refers to " + name);
        Module module = assembly.ManifestModule;
        int count = 0;
        try
        {
            for (; ; count++) module.ResolveType(TypeReference + count);
        }
        catch (ArgumentOutOfRangeException) { } // there are no more
        foreach (Type type in module.GetTypes())
            foreach (MemberInfo member in type.GetMembers()) member.GetCustomAttributes(false);
        Console.WriteLine(count + " types");
        return count >= int.Parse(arguments[1]) ? 0 : 1;
    }
}
