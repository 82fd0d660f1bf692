/** A label or an annotation that a field path of the downward API names. */
export interface MetadataReference {
  readonly map: 'labels' | 'annotations';
  readonly key: string;
}

/** The label or annotation of `metadata.labels['key']`; undefined for any other path. */
export function metadataReference(fieldPath: string): MetadataReference | undefined {
  const [, map, key = ''] = /^metadata\.(labels|annotations)\['([^']*)'\]$/.exec(fieldPath) ?? [];
  return map === 'labels' || map === 'annotations' ? { map, key } : undefined;
}
