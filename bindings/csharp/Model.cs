namespace Quire
{
    public sealed partial class Model
    {
        /// <summary>Creates a cache and starts its scheduler. maxTokens is the number of tokens of all jobs
        /// together; 0 means one job of full length.</summary>
        public Cache CreateCache(long maxTokens = 0)
        {
            return CreateCache(new CacheOptions { MaxTokens = maxTokens });
        }
    }
}
