/** What the lock file calls an API: no server has such a name. */
export const lockedAs = (id: string): string => `openapi.${id}`
