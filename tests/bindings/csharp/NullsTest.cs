using System;
using System.Collections.Generic;
using System.Linq;
using System.Reflection;
using Quire;
using static Fixture;

/// <summary>Passes null to each parameter of each public method and constructor. The exception names the
/// parameter.</summary>
public static class NullsTest
{
    private const int Fewest = 30;

    public static int Main(string[] arguments)
    {
        return Fixture.Run(arguments, NullIsNamedByEveryMethod, ANullInACollectionIsNamed, NullMeansTheDefaultWhereItIsAllowed);
    }

    /// <summary>Returns true if a nullability attribute, or a default, allows null.</summary>
    private static bool MayBeNull(ParameterInfo parameter)
    {
        object found = parameter.GetCustomAttributes(false).FirstOrDefault(one => one.GetType().Name == "NullableAttribute");
        return parameter.HasDefaultValue || found != null &&
            ((byte[])found.GetType().GetFields()[0].GetValue(found)).Last() == 2;
    }

    private static void NullIsNamedByEveryMethod(Fixture with)
    {
        var failures = new List<string>();
        int tried = 0;
        using (ChatTemplate template = ChatTemplate.Open(with.Path))
        using (Constraint constraint = with.Model.CreateConstraint(ConstraintKind.Regex, "a+"))
        using (Matcher matcher = constraint.CreateMatcher())
        using (EventQueue queue = with.Runtime.CreateQueue())
        using (Alias alias = with.Runtime.CreateAlias("nulls"))
        using (ResponseParser parser = ResponseParser.Create("hermes"))
        using (Job job = with.Cache.Submit(new Request { Prompt = with.Prompt, MaxNewTokens = 4 }))
        {
            var values = new object[] { with.Runtime, with.Model, with.Cache, template, constraint, matcher, queue, alias,
                parser, job, new Request { Prompt = "a" }, new CacheOptions(), "text", new[] { 1 } };
            foreach (object value in values)
                if (value.GetType().Assembly == typeof(Job).Assembly)
                    foreach (MethodBase method in Methods(value.GetType()))
                        tried += Try(method, value, values, failures);
            foreach (MethodBase method in Methods(typeof(PromptPart))) tried += Try(method, null, values, failures);
        }
        Check(failures.Count == 0, string.Join("\n", failures));
        Check(tried >= Fewest, tried + " parameters were tried");
    }

    private static IEnumerable<MethodBase> Methods(Type type)
    {
        const BindingFlags Own = BindingFlags.Public | BindingFlags.Instance | BindingFlags.Static | BindingFlags.DeclaredOnly;
        return type.GetConstructors().Cast<MethodBase>()
            .Concat(type.GetMethods(Own).Where(method => !method.IsSpecialName));
    }

    private static int Try(MethodBase method, object target, object[] values, List<string> failures)
    {
        int tried = 0;
        ParameterInfo[] parameters = method.GetParameters();
        foreach (ParameterInfo parameter in parameters)
        {
            if (parameter.ParameterType.IsValueType || MayBeNull(parameter)) continue;
            object[] given = parameters.Select(one => Value(one, values)).ToArray();
            given[parameter.Position] = null;
            tried++;
            Exception thrown = Thrown(method, target, given);
            var refusal = thrown as ArgumentNullException;
            if (refusal == null || refusal.ParamName != parameter.Name)
                failures.Add(method.DeclaringType.Name + "." + method.Name + "." + parameter.Name + ": " + thrown);
        }
        return tried;
    }

    private static object Value(ParameterInfo parameter, object[] values)
    {
        Type type = parameter.ParameterType;
        return type.IsValueType ? Activator.CreateInstance(type) : values.FirstOrDefault(type.IsInstanceOfType);
    }

    private static Exception Thrown(MethodBase method, object target, object[] given)
    {
        try
        {
            var made = method as ConstructorInfo;
            if (made != null) made.Invoke(given);
            else method.Invoke(target, given);
            return null;
        }
        catch (TargetInvocationException failure)
        {
            return failure.InnerException;
        }
    }

    private static void ANullInACollectionIsNamed(Fixture with)
    {
        CheckNamed("StopTexts", () => with.Cache.Submit(new Request { Prompt = "a", StopTexts = { null } }));
        CheckNamed("BannedTexts", () => with.Cache.Submit(new Request { Prompt = "a", BannedTexts = { null } }));
        CheckNamed("Parts", () => with.Cache.Submit(new Request { Parts = { null } }));
        CheckNamed("Namespaces", () => with.Model.CreateCache(new CacheOptions { Namespaces = { { "a", null } } }));
        CheckNamed("path", () => with.Runtime.LoadModel(null));
    }

    private static void CheckNamed(string name, Action call)
    {
        try
        {
            call();
        }
        catch (ArgumentNullException refusal)
        {
            Check(refusal.ParamName == name, refusal);
            return;
        }
        Check(false, name + " is not refused");
    }

    private static void NullMeansTheDefaultWhereItIsAllowed(Fixture with)
    {
        Check(with.Model.CacheBytes(null) == with.Model.CacheBytes(new CacheOptions()), "the bytes differ");
        using (Cache cache = with.Model.CreateCache(null))
            Check(cache.Stats().PagesTotal > 0, "no pages");
    }
}
