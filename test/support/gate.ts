/** A promise that a test resolves. */
export interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
}

/** A gate that is closed. */
export function newGate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
