namespace Quire
{
    public sealed partial class Model
    {
        /// <summary>Takes the memory of a cache and starts its scheduler. maxTokens is room for all jobs
        /// together; 0 is one job of full length.</summary>
        public Cache CreateCache(long maxTokens = 0)
        {
            return CreateCache(new CacheOptions { MaxTokens = maxTokens });
        }
    }
}
