// What pages carry compressed: the text of the element `packed-NAME`, as `packed` of packed.py makes it.
const unpack = async (name) => {
  const bytes = Uint8Array.from(atob(document.getElementById(`packed-${name}`).textContent), (char) => char.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
