/**
 * Divides something scarce: each gets what it wants if that is no more than an equal part; the others divide the rest
 * in the same way. Nobody gets less because another one wants more than an equal part.
 */
export function fairShares(wanted: ReadonlyMap<string, number>, available: number): ReadonlyMap<string, number> {
  const shares = new Map<string, number>();
  let left = available;
  const rising = [...wanted].toSorted(([, one], [, other]) => one - other);
  for (const [index, [name, wish]] of rising.entries()) {
    const share = Math.min(wish, Math.floor(left / (rising.length - index)));
    shares.set(name, share);
    left -= share;
  }
  return shares;
}
