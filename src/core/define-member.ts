/** Adds a member to an object. Assignment would treat `__proto__` specially. */
export const defineMember = (object: object, key: string, value: unknown): void =>
  void Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true })
